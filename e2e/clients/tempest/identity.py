"""A Keystone with a database of its own in a folder, on a free port of loopback.

identity.py FOLDER BAREMETAL_URL

It writes its port to standard output once it answers, and serves until its standard
input ends. The passwords are all "secret": nobody else can reach it.
"""
import base64
import os
import sqlite3
import sys
import threading
import wsgiref.simple_server

folder, baremetal = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
config = os.path.join(folder, "keystone.conf")
with open(config, "w") as f:
    f.write(f"""
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
[oslo_policy]
policy_dirs = {folder}/policy.d
[cache]
enabled = true
backend = dogpile.cache.memory
""")
os.mkdir(os.path.join(folder, "policy.d"))
for name in ("fernet", "credential"):
    os.makedirs(os.path.join(folder, name), mode=0o700)
    for key in ("0", "1"):
        with open(os.path.join(folder, name, key), "wb") as f:
            f.write(base64.urlsafe_b64encode(os.urandom(32)))

from keystone.cmd import bootstrap
from keystone.common import provider_api, sql
from keystone.common.sql import upgrades
from keystone.server.wsgi import initialize_public_application
import keystone.conf


class Server(wsgiref.simple_server.WSGIServer):
    request_queue_size = 64


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


server = wsgiref.simple_server.make_server("127.0.0.1", 0, None, Server, Handler)
url = f"http://127.0.0.1:{server.server_port}/v3"


def fill():
    """Makes the database: who may say who asks, and where the API is."""
    keystone.conf.configure()
    sql.initialize()
    keystone.conf.CONF(args=["--config-file", config], project="keystone")
    upgrades.offline_sync_database_to_version()
    # Keystone leaves connections that have read something; they must not keep others from writing.
    sqlite3.connect(f"{folder}/keystone.db").execute("PRAGMA journal_mode=WAL")
    b = bootstrap.Bootstrapper()
    b.admin_username = b.project_name = b.admin_role_name = "admin"
    b.admin_password = "secret"
    b.service_name, b.region_id = "keystone", "RegionOne"
    b.public_url = b.internal_url = b.admin_url = url
    b.immutable_roles = True
    b.bootstrap()

    api = provider_api.ProviderAPIs

    def made(create, **ref):
        ref["id"] = os.urandom(16).hex()
        return create(ref["id"], ref)["id"]

    project = made(api.resource_api.create_project, name="service", domain_id="default", enabled=True,
                   description="", is_domain=False, parent_id="default")
    user = api.identity_api.create_user({"name": "ironic", "password": "secret", "domain_id": "default", "enabled": True})
    roles = {r["name"]: r["id"] for r in api.role_api.list_roles()}
    for name in ("service", "manager"):
        if name not in roles:
            roles[name] = made(api.role_api.create_role, name=name)
    roles_by_id = {i: name for name, i in roles.items()}
    # As Keystone makes it itself since 2023.2: an admin is a manager, and a manager a member.
    for prior, implied in (("admin", "manager"), ("manager", "member")):
        if implied not in {roles_by_id[i["implied_role_id"]] for i in api.role_api.list_implied_roles(roles[prior])}:
            api.role_api.create_implied_role(roles[prior], roles[implied])
    api.assignment_api.add_role_to_user_and_project(user["id"], project, roles["service"])
    service = made(api.catalog_api.create_service, type="baremetal", name="ironic", enabled=True)
    for interface in ("public", "internal", "admin"):
        made(api.catalog_api.create_endpoint, service_id=service, interface=interface, region_id="RegionOne", url=baremetal, enabled=True)


child = os.fork()  # a process loads its back ends once, and the bootstrapper is one that does
if child == 0:
    fill()
    os._exit(0)
if os.waitpid(child, 0)[1] != 0:
    sys.exit("the database was not made; see " + folder)
sys.argv[1:] = ["--config-file", config]
server.set_app(initialize_public_application())
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
