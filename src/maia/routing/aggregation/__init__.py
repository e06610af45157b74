"""Which few filters does a router announce for many, and how many bytes of filters cost least?"""
