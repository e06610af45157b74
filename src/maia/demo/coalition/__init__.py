"""`maia demo coalition`: three nations share contacts at sea, as the Gismo paper has it."""
