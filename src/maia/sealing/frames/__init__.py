"""Sealed frames: content, blocks, ciphers, proof, opening."""
