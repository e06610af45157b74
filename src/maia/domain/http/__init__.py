"""The HTTP interface of a domain: who may ask what, how it is signed, and how it is answered.

Its parts are imported by their files: a client does not load a server.
"""

__all__: list[str] = []
