"""Which of very many filters admit an event?"""
