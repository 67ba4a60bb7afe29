"""`lake key`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.features.erasure.certificates import signing_key
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Control


@dataclass(frozen=True)
class PublicKey(Shown):
    """The public key, with which others check certificates."""

    public_key: str
    fingerprint: str
    pem: str


class Key(Control[PublicKey]):
    """Print the public key with which certificates of this installation are checked.

    Give it to the people who check certificates, over another channel than the certificates. The secret key is in the
    file named by the setting signing_key and is never printed.
    """

    journaled = False

    make: bool = Field(False, description="Create the key if there is none. An existing key is kept.")

    def act(self, desk: ControlDesk) -> PublicKey:
        path = desk.lake.settings.signing_key
        if self.make:
            signing_key.make(path)
        public = signing_key.load(path).public
        return PublicKey(public.text, public.fingerprint, public.pem)
