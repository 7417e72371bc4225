"""What is ordered from whom."""

from typing import Any

import pytest
from jobrunner_cutx.accounts import account
from jobrunner_cutx.predicting import given

from jobrunner import RetryableFailure

LAMP: dict[str, Any] = {
    "name": "Lamp",
    "brand": None,
    "description": "It shines.",
    "features": ["Folds flat."],
}
AD: dict[str, Any] = {"product_id": "lamp-7", "product": LAMP, "style": "product_hero"}


def test_models_get_a_prompt() -> None:
    ordered = given("static_ad", AD | {"prompt": None}, built_in=False)
    told = "A picture that advertises a product. product hero. Lamp. It shines. Folds flat"
    assert ordered == {"type": "static_ad", **AD, "prompt": told}
    film = given("ugc_video", {"product_id": "x", "script": "Hello."}, built_in=False)
    assert film["prompt"].endswith("about a product. Hello")
    assert given("static_ad", {"product_id": "x"}, built_in=False)["prompt"]


def test_a_prompt_that_was_given_is_kept() -> None:
    for built_in in (True, False):
        ordered = given("static_ad", AD | {"prompt": "by night"}, built_in)
        assert ordered["prompt"] == "by night"


def test_nothing_is_added_for_the_built_in_provider() -> None:
    assert given("static_ad", AD, built_in=True) == {"type": "static_ad", **AD}
    assert given("tts", {"text": "Hello", "voice": None}, built_in=False) == {
        "type": "tts",
        "text": "Hello",
    }


def test_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes to somebody whom nobody named, or without the key that was."""
    with pytest.raises(RetryableFailure, match="names no other"):
        account({"provider_url": ""}, "provider_url", "key_env")
    with pytest.raises(RetryableFailure, match="THE_KEY"):
        account({"url": "http://x", "key_env": "THE_KEY"}, "url", "key_env")
    monkeypatch.setenv("THE_KEY", "secret")
    found = account({"url": "http://x", "key_env": "THE_KEY"}, "url", "key_env")
    assert (found.base_url, found.key) == ("http://x", "secret")
    assert account({}, "url", "key_env", "http://usual").base_url == "http://usual"
