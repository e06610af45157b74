"""An organisation, its members, what it grants, and its servers, in few words."""
