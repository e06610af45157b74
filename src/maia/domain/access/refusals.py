"""In which ways does the access control service refuse, beside those of the policy kernel?"""

from __future__ import annotations
