"""Secrets of all kinds, made up, each with a line of a log that holds it."""

from __future__ import annotations

_KEY = "MIIEpAIBAAKCAQEA1c7Jk2Lm9Qx4Vb8Tz0Yw3Rn6Ps5Gh1Df"
# Kind, the secret itself, and the line. None is anybody's.
SECRETS = {
    kind: (secret, line.format(secret))
    for kind, (secret, line) in {
        "aws key id": ("AKIAQ3EXAMPLE7XYZABC", "creds {} used"),
        "aws secret": ("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", "aws_secret_access_key = {}"),
        "aws secret, bare": ("kQ7xN2vB9mL4pR8sT1wY6zC3dF5gH0jJ+aE/uIoP", "secret was {} there"),
        "aws session": ("IQoJb3JpZ2luX2VjEXAMPLE7token99", "AWS_SESSION_TOKEN={}"),
        "hugging face": ("hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "login with {}"),
        "github": ("ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", "git clone https://{}@github.com/x/y"),
        "github, fine-grained": ("github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz", "pat {}"),
        "gitlab": ("glpat-AbCdEf1234567890wxyz", "gitlab {}"),
        "openai": ("sk-proj-AbCdEf1234567890AbCdEf1234567890", "OPENAI {} refused"),
        "slack": ("xoxb-123456789012-abcdefABCDEF", "posting with {}"),
        "slack webhook": ("a8Jd83kd93kDk29dkA93kd01", "https://hooks.slack.com/services/T0001AAA/B0001BBB/{}"),
        "google": ("AIzaSyA1234567890abcdefghijklmnopqrstuvw", "key {} is over quota"),
        "google oauth": ("ya29.a0AfH6SMBx1234567890abcdef", "bearer of {}"),
        "nvidia": ("nvapi-AbCdEf1234567890AbCdEf1234567890", "ngc {}"),
        "npm": ("npm_AbCdEf1234567890AbCdEf1234567890abcd", "npm {}"),
        "pypi": ("pypi-AgEIcHlwaS5vcmcCJDEyMzQ1Njc4OTAtYWJj", "twine {}"),
        "docker": ("dckr_pat_AbCdEf1234567890AbCdEf12", "docker {}"),
        "databricks": ("dapi0123456789abcdef0123456789abcdef", "dbx {}"),
        "vault": ("hvs.CAESIAbCdEf1234567890AbCdEf", "vault {}"),
        "wandb": ("0123456789abcdef0123456789abcdef01234567", "wandb: logged in with {}"),
        "jwt": ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0NTY3.SflKxwRJSMeKKF2QT4", "sent {}"),
        "bearer header": ("s3cr3tB34r3rV4lu3", "Authorization: Bearer {}"),
        "basic header": ("YWxhZGRpbjpvcGVuc2VzYW1l", "authorization=Basic {}"),
        "cookie": ("session=f00dfeed42", "Cookie: {}"),
        "password": ("hunter2hunter2", "password={}"),
        "password, quoted": ("correct horse battery", 'config: "password": "{}"'),
        "password in an address": ("Tr0ub4dor3x", "postgresql://ann:{}@db.example.org:5432/x"),
        "flag": ("p4ssw0rdInAFlag", "train.py --db-password {} --lr 1"),
        "sshpass": ("0p3nS3sam3", "sshpass -p {} ssh gpu01"),
        "client secret": ("c1i3ntS3cr3tV4lu3", "client_secret: '{}'"),
        "azure account key": ("Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==", "AccountKey={}"),
        "signature": ("9f8e7d6c5b4a39281706", "https://blob.example.org/x?sv=1&sig={}"),
        "private key": (_KEY, "-----BEGIN OPENSSH PRIVATE KEY-----{}"),
    }.items()
}
