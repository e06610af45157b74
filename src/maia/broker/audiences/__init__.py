"""Who subscribes here, and what does each class of subscribers see?"""
