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
    """What others check certificates with; it is no secret."""

    public_key: str
    fingerprint: str
    pem: str


class Key(Control[PublicKey]):
    """Print the public key by which certificates of this installation are checked.

    Hand it to those who will check them, by another way than the certificates. The secret key is in the file that the
    setting signing_key names, and is never printed.
    """

    journaled = False

    make: bool = Field(False, description="Make the key if there is none; one that is there stays.")

    def act(self, desk: ControlDesk) -> PublicKey:
        path = desk.lake.settings.signing_key
        if self.make:
            signing_key.make(path)
        public = signing_key.load(path).public
        return PublicKey(public.text, public.fingerprint, public.pem)
