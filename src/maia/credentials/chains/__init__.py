"""Chains of certificates: search, verification, reduction, quorums, hand-over of roots."""
