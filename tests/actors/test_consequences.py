"""What follows a commit is declared, whole, where the room is put together."""

import pytest
from msgspec.structs import fields

from jobrunner.actors.consequences import Listeners


@pytest.mark.parametrize("forgotten", [field.name for field in fields(Listeners)])
def test_a_listener_that_is_forgotten_is_an_error_and_not_silence(forgotten: str) -> None:
    listeners = {field.name: print for field in fields(Listeners)}
    Listeners(**listeners)
    del listeners[forgotten]
    with pytest.raises(TypeError, match=forgotten):
        Listeners(**listeners)
