"""Shows tokens that openstacksdk did not fetch itself.

argv: the API's endpoint, an administrator's token, one of somebody without a role, one
that is not good.
"""
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import openstack
from openstack import exceptions

endpoint, admin, nobody, bad = sys.argv[1:]


def by_options(token):
    return openstack.connect(auth_type="admin_token", endpoint=endpoint, token=token)


def by_file(token):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "clouds.yaml")
        with open(path, "w") as f:
            f.write(f"clouds: {{it: {{auth_type: admin_token, auth: {{endpoint: '{endpoint}', token: '{token}'}}}}}}\n")
        config = openstack.config.OpenStackConfig(config_files=[path])
        return openstack.connection.Connection(config=config.get_one("it"))


def refused(status, what, f):
    try:
        f()
    except exceptions.HttpException as e:
        if e.status_code != status:
            sys.exit(f"{what}: status {e.status_code}, want {status}: {e}")
    else:
        sys.exit(f"{what}: it was not refused")


for number, connect in enumerate((by_options, by_file), 1):
    baremetal = connect(admin).baremetal
    node = baremetal.create_node(driver="fake-hardware", name=f"n{number}")
    if baremetal.get_node(node.name).id != node.id or len(list(baremetal.nodes())) != number:
        sys.exit(f"{connect.__name__}: the node that was created is not there")
    refused(403, "a person without a role", lambda: connect(nobody).baremetal.create_node(driver="fake-hardware"))
    refused(401, "a token for another audience", lambda: connect(bad).baremetal.get_node(node.name))
