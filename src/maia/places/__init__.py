"""Where do logs, tables and checkpoints lie: in a folder of this machine, or in an object store?"""

from __future__ import annotations

from maia.places.place import AlreadyThere, Found, Place, is_address, place_of, places_of, store_options

__all__ = ["AlreadyThere", "Found", "Place", "is_address", "place_of", "places_of", "store_options"]
