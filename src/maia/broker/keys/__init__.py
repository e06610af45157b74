"""Which keys of sealed types does this broker hold, and what do they open?"""
