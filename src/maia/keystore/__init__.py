"""Key files and wallets on a disk."""
