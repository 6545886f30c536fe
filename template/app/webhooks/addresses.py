"""Which IP addresses a webhook may reach: our own list, judged at write and again at connect.

Invariant: what is not plainly a public unicast address is refused, by a rule that has a name.
`APP_ALLOW_PRIVATE_TARGETS` opens the rules in `OPENABLE` and no other: link-local, metadata,
multicast and unspecified addresses stay closed. `ipaddress.is_global` is not used, because its
answer for NAT64, 6to4 and multicast changes between Python patch releases.
"""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

OPENABLE = frozenset({"loopback", "private"})

_V4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",  # holds 100.100.100.200, a metadata service
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "metadata",
    "169.254.169.254/32": "metadata",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "255.255.255.255/32": "broadcast",
    "240.0.0.0/4": "reserved",
}

_V6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "fd00:ec2::/32": "metadata",
    "fd20:ce::254/128": "metadata",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
    "2001::/23": "reserved",  # Teredo, ORCHID, benchmarking
    "2001:db8::/32": "documentation",
    "3fff::/20": "documentation",
    "2620:4f:8000::/48": "reserved",
}

_V4_RULES = [(IPv4Network(text), rule) for text, rule in _V4.items()]
_V6_RULES = [(IPv6Network(text), rule) for text, rule in _V6.items()]
_V6_UNICAST = IPv6Network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


def refused(address: str | Address, *, allow_private: bool) -> str | None:
    """The rule that forbids to connect to `address`, or None if it may be called."""
    rule = rule_of(address)
    return None if rule is None or (allow_private and rule in OPENABLE) else rule


def rule_of(address: str | Address) -> str | None:
    """Why `address` is no public unicast address; None if it is one."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:  # `127.1` and the like, which a socket would understand all the same
            return "unreadable"
    if isinstance(address, IPv6Address):
        inner = _unwrapped(address)
        if inner is None:
            return _rule_v6(address)
        address = inner
    return next((rule for network, rule in _V4_RULES if address in network), None)


def _unwrapped(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside a mapped, NAT64 or 6to4 form: that is where packets end up."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _rule_v6(address: IPv6Address) -> str | None:
    bare = IPv6Address(int(address))  # a zone (`fe80::1%eth0`) never matches a network
    for network, rule in _V6_RULES:
        if bare in network:
            return rule
    return None if bare in _V6_UNICAST else "reserved"
