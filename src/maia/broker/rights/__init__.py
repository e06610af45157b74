"""What was granted, by which certificates, and does it still count?"""
