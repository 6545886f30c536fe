"""The parked page in a browser: sign in by link, look, retry; hostile content stays inert."""

import os
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.admin.site import add_endpoint, new_link, park, status_of

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
Page, expect = playwright.Page, playwright.expect

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


async def _picture(page: Page, name: str) -> None:
    folder = os.environ.get("TEST_SCREENSHOTS")
    if folder:
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def test_sign_in_see_a_parked_message_retry_it_and_it_is_gone(
    page: Page, data: Database
) -> None:
    """The way of a person who was called at night."""
    message = await park(data, await add_endpoint(data))
    await page.goto(await new_link(data))
    await expect(page).to_have_url("/admin/parked")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Parked messages")
    await _picture(page, "list")
    await page.get_by_role("link", name="order.paid").click()
    await expect(page.get_by_text("no such shop")).to_be_visible()
    await _picture(page, "message")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status")).to_contain_text("It waits for its next attempt")
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    await _picture(page, "retried")
    assert await status_of(data, message) == "pending"


async def test_dismiss_asks_for_a_reason_before_it_sends_anything(
    page: Page, data: Database
) -> None:
    """The browser refuses an empty reason; with one the message is closed."""
    message = await park(data, await add_endpoint(data))
    await page.goto(await new_link(data))
    await page.goto(f"/admin/parked/{message}")
    await page.get_by_role("button", name="Dismiss").click()
    assert await status_of(data, message) == "parked"
    await page.get_by_label("Reason").fill("the shop has closed")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("dismissed")
    assert await status_of(data, message) == "dismissed"


async def test_everything_is_reached_by_keyboard(page: Page, data: Database) -> None:
    """Tab finds the skip link first, then every control; Enter on Retry retries."""
    message = await park(data, await add_endpoint(data))
    await page.goto(await new_link(data))
    seen = []
    for _ in range(12):
        await page.keyboard.press("Tab")
        seen.append(await page.evaluate("document.activeElement.innerText.split('\\n')[0]"))
        if seen[-1] == "Retry":
            break
    assert seen[0] == "Skip to the content"
    assert {"Sign out", "Filter", "order.paid", "Retry"} <= set(seen)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_be_visible()
    assert await status_of(data, message) == "pending"


async def test_hostile_content_runs_nothing(page: Page, data: Database) -> None:
    """Markup from outside is text: no script, no image, no dialog, the title is ours."""
    endpoint = await add_endpoint(data, "https://evil.example/" + HOSTILE)
    message = await park(
        data,
        endpoint,
        error=HOSTILE + "\u202e" + "x" * 700,
        body=b'{"data":"' + HOSTILE.encode() + b'","long":"' + b"y" * 50_000 + b'"}',
        answer=b"\x00\xff" + HOSTILE.encode(),
    )
    await page.goto(await new_link(data))
    await _picture(page, "hostile-list")
    await page.goto(f"/admin/parked/{message}")
    await _picture(page, "hostile-message")
    assert "owned" not in await page.title()
    assert await page.locator("script, img").count() == 0
    assert await page.get_by_text("document.title='owned'").count() > 0


async def test_a_narrow_screen_needs_no_sideways_scrolling(page: Page, data: Database) -> None:
    """360 px wide, long words included."""
    await page.set_viewport_size({"width": 360, "height": 800})
    endpoint = await add_endpoint(data, "https://shop.example/" + "a" * 300)
    message = await park(data, endpoint, error="e" * 900, body=b'"' + b"b" * 5000 + b'"')
    await page.goto(await new_link(data))
    for name, path in (("list", "/admin/parked"), ("message", f"/admin/parked/{message}")):
        await page.goto(path)
        await _picture(page, f"narrow-{name}")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_dark_and_light_both_keep_the_text_readable(page: Page, data: Database) -> None:
    """Contrast of text, links and buttons is at least 4.5 in either scheme."""
    message = await park(data, await add_endpoint(data))
    await page.goto(await new_link(data))
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for path in ("/admin/parked", f"/admin/parked/{message}"):
            await page.goto(path)
            assert await page.evaluate(CONTRAST) == []
        await _picture(page, f"{scheme}-message")


# Text elements whose colour is too close to the first opaque background behind it.
CONTRAST = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .filter(e => {
      const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
    }).map(e => e.outerHTML.slice(0, 80));
}"""


async def test_without_a_session_the_page_says_how_to_get_one(page: Page) -> None:
    """Not a bare 401."""
    answer = await page.goto("/admin/sign-in")
    assert answer is not None
    assert answer.status == 200
    await expect(page.get_by_text("admin link")).to_be_visible()
    await _picture(page, "signed-out")


async def test_an_empty_list_is_a_good_sign(page: Page, data: Database) -> None:
    """The page that one hopes for."""
    await page.goto(await new_link(data))
    await expect(page.get_by_text("Nothing is parked.")).to_be_visible()
    await _picture(page, "empty")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("You are not signed in")
