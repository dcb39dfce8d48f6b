#!/usr/bin/env python3
"""Verify an exported ledger, with nothing but Python's standard library.

    verify.py EXPORT.jsonl [CHECKPOINT KEYS.pub]

A second verifier, written from docs/ledger_format.md alone. Prints one JSON
document; exits 0 where the verdict is ok, else 8.
"""
import base64, hashlib, json, re, sys

# Ed25519 verification as in RFC 8032, in its extended coordinates X, Y, Z, T.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def root(y, odd):
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and odd):
        raise ValueError("no point of the curve")
    return x if x % 2 == odd else P - x


def point(b):
    n = int.from_bytes(b, "little")
    y = n & (2**255 - 1)
    x = root(y, n >> 255)
    return x, y, 1, x * y % P


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[3] * q[3], 2 * p[2] * q[2]
    e, f, g, h = (b - a) % P, (d - c) % P, (d + c) % P, (b + a) % P
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    total = (0, 1, 1, 0)
    while n:
        if n & 1:
            total = add(total, p)
        p, n = add(p, p), n >> 1
    return total


def signed(key, message, sig):
    s = int.from_bytes(sig[32:], "little")
    h = int.from_bytes(hashlib.sha512(sig[:32] + key + message).digest(), "little") % L
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    p, q = times(s, base), add(point(sig[:32]), times(h, point(key)))
    return s < L and (p[0] * q[2] - q[0] * p[2]) % P == 0 == (p[1] * q[2] - q[1] * p[2]) % P


def checkpoint(text, keys):
    """Gives org, count and head of a checkpoint that a known key has signed."""
    body, signatures = text.split("\n\n", 1)
    origin, count, head, at = (body + "\n").split("\n")[:4]
    name, org = origin.split("/")
    if not re.fullmatch("0|[1-9][0-9]*", count) or not at.startswith("time "):
        raise ValueError("malformed checkpoint")
    for line in signatures.splitlines():
        dash, signer, sig = line.split(" ")
        sig = base64.b64decode(sig, validate=True)
        for known in keys:
            of, id, key = known.split("+", 2)
            key = base64.b64decode(key, validate=True)
            sum = hashlib.sha256(of.encode() + b"\n" + key).digest()[:4]
            if dash != "—" or of != signer or of != name or sum.hex() != id or sum != sig[:4] or key[0] != 1:
                continue
            if not signed(key[1:], (body + "\n").encode(), sig[4:]):
                raise ValueError("wrong signature")
            return org, int(count), base64.b64decode(head, validate=True)
    raise ValueError("signed by no known key")


def verify(lines, org=None, against=None):
    """Walks entries in the order stored; the first bad one decides."""
    seq, head, met = 0, bytes(32), against is None or against == (0, bytes(32))
    bad = lambda verdict, first: dict(org=org, entries=seq, head=head.hex(), verdict=verdict, first_bad=first)
    for line in lines:
        if not line.strip():
            continue
        e = json.loads(line)
        n, text = e["seq"], e["body"].encode("utf-8", "surrogatepass")
        try:
            body = json.loads(text)
            of, kind = body["org"], body["kind"]
            prev, hash = (bytes.fromhex(h) if re.fullmatch("[0-9a-f]{64}", h) else None for h in (e["prev"], e["hash"]))
            whole = hashlib.sha256(prev + n.to_bytes(8, "big") + text).digest() == hash
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            return bad("altered", n)
        org = org or of
        if of != org or not e["subject"].startswith("tally.v1.ledger." + org + "."):
            return bad("foreign", n)
        if 0 < seq >= n:
            return bad("fork", n)
        if n != seq + 1:
            return bad("missing", n)
        if prev != head:
            return bad("altered", n)
        if kind == "gap":
            return bad("gap", n)
        seq, head = n, hash
        met = met or against == (seq, head)
    if against and against[0] > seq:
        return bad("tail_cut", seq + 1)
    if not met:
        return bad("rebuilt", against[0])
    return dict(org=org, entries=seq, head=head.hex(), verdict="ok")


def main(export, note=None, keys=None):
    org = against = None
    try:
        if note:
            known = [k.strip() for k in open(keys, encoding="utf-8") if k.strip() and not k.startswith("#")]
            org, count, head = checkpoint(open(note, encoding="utf-8", newline="").read(), known)
            against = count, head
        result = verify(open(export, encoding="utf-8", newline="\n"), org, against)
    except (ValueError, KeyError, TypeError) as e:
        print("verify:", e, file=sys.stderr)
        return 8
    print(json.dumps(result))
    return 0 if result["verdict"] == "ok" else 8


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
