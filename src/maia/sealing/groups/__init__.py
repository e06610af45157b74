"""Key groups as their manager runs them."""
