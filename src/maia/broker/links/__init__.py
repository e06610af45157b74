"""Who is at the other end of each link, and what is registered and carried there?"""
