"""The HTTP interface of a domain: who may ask what, how it is signed, and how it is answered.

Its parts are imported by their files: whoever only calls does not load a server.
"""

__all__: list[str] = []
