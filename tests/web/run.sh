#!/usr/bin/env bash
# Tests of the page: that the built one in src/server/page is what web/ builds, and the page in a real browser.
# usage: run.sh fresh|browser CAMSHAFT. Exit code 77: skipped, the reason is printed. npm packages are installed by the
# lock file where they are missing; with CI=true Debian's Chromium too.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "skipped: $1"; exit 77; }

command -v npm >/dev/null || skip "no npm here; the page is only built where Node is"
if [ ! -d "$root/web/node_modules" ]; then
  (cd "$root/web" && npm ci --no-audit --no-fund --silent) || skip "npm ci failed: no package registry?"
fi

case "$1" in
  fresh)
    out=$(mktemp -d) log=$(mktemp)
    trap 'rm -rf "$out" "$log"' EXIT
    (cd "$root/web" && CAMSHAFT_PAGE_OUT="$out" npm run --silent build >"$log" 2>&1) || { cat "$log"; exit 1; }
    diff -rq "$root/src/server/page" "$out" || { echo "the built page is stale: run 'npm run build' in web/ and commit src/server/page"; exit 1; }
    echo "src/server/page equals a fresh build" ;;
  browser)
    if ! command -v chromium >/dev/null && [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1 || true
    fi
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || skip "no Chromium here"
    CAMSHAFT_BIN="$2" exec node --test "$root/tests/web/" ;;
esac
