"""Which few filters can stand for many, and how much more do they let through?"""
