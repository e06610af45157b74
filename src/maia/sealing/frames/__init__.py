"""Sealed frames: content, ciphers, proof, one sealer and one opener."""
