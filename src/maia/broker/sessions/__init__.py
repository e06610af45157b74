"""What do peers ask for, and what follows when rights, keys or links end?"""
