"""The one form in bytes of certificates, authorities, subjects and statements."""
