"""The console: a web page for the people who run a domain, and for those who audit it.

It has no right of its own. A person signs in by a link that a key has asked for, and
every page is what that key's own signed calls to the domain's server, and its own
connection to the network, bring back.
"""
