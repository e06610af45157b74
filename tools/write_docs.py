"""Which pages are made from other files? This writes them; `check_repo.py` sees that they are current."""

from __future__ import annotations

import api_page
import attack_index
import decision_index
import error_codes
import pictures
import reference_pages


def main() -> None:
    """Write every generated page."""
    decision_index.PAGE.write_text(decision_index.page(), encoding="utf-8")
    attack_index.PAGE.write_text(attack_index.page(), encoding="utf-8")
    api_page.PAGE.write_text(api_page.page(), encoding="utf-8")
    error_codes.PAGE.write_text(error_codes.page(error_codes.all_errors()), encoding="utf-8")
    for path, text in (reference_pages.pages() | pictures.pages()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
