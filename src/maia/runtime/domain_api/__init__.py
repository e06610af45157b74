"""The HTTP interface of a domain: who may ask what, how it is signed, and how it is answered."""

from maia.runtime.domain_api.application import application
from maia.runtime.domain_api.gate import Gate
from maia.runtime.domain_api.listener import listening
from maia.runtime.domain_api.page_table import endpoints_of
from maia.runtime.domain_api.pages import Pages

__all__ = ["Gate", "Pages", "application", "endpoints_of", "listening"]
