"""The HTTP interface of a domain as both ends see it: requests, responses, headers, problems, a client."""
