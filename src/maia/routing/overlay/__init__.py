"""The structured overlay: ids, prefix routing, leaf sets, joining and leaving."""
