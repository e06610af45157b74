"""Which few filters can replace many, and how much more do they let through?"""
