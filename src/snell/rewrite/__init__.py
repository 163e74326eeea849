"""The e-graph room: index-notation terms, rules as data, saturation and extraction."""
