/**
 * The status page in a real browser: what it says of each shownCase, that it is quick with 12,000 datasets, and that nothing of a
 * hostile service becomes more than text. Without Chromium it is skipped, and says so.
 */

import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PageStores } from '../../src/daemon/server/page/overview.ts';
import type { RecordedUnion } from '../../src/destination/catalog/unions.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { renewScreenshots, screenshotPath } from '../support/page-screenshots.ts';
import { pageWorld, type ShownCase } from '../support/page-world.ts';
import { ask, serve } from '../support/status-server.ts';

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) {
  process.stderr.write(
    `The status page is not tested in a browser: there is no ${CHROMIUM} (CHROMIUM names another).\n`,
  );
}

let browser: Browser;
const PHONE = { width: 390, height: 844 };
const DESK = { width: 1_120, height: 1_000 };

const UNION = { globs: ['*'], form: 2, parts: 1, unusable: [], leftOut: [] };
const KINDS = [
  { kind: 'integer', members: 11, example: 'us-az-cedarville-0000-parcels' },
  { kind: 'string', members: 1, example: 'us-tx-<b>-parcels' },
];
const UNIONS: readonly RecordedUnion[] = [
  { ...UNION, name: 'parcels', members: 12, leftOut: [{ columnName: 'height', kinds: KINDS }] },
  { ...UNION, name: 'permits', members: 1, unusable: ['us-a-permits', 'us-b-permits'] },
  { ...UNION, name: 'zoning', members: 0 },
];

interface Opening {
  readonly count?: number;
  readonly message?: string;
  readonly unions?: readonly RecordedUnion[];
  /** The last commits, of those of the case. */
  readonly changed?: (runs: PageStores['syncRuns']) => PageStores['syncRuns'];
  readonly window?: Parameters<Browser['newPage']>[0];
}

/** The page of a shownCase, in a window of its own; `errors`: what the browser complained of. */
async function opened(
  shownCase: ShownCase,
  { count = 20, message, unions = [], window = {}, changed = (runs) => runs }: Opening = {},
) {
  const options = { unions, ...(message === undefined ? {} : { message }) };
  const world = pageWorld(shownCase, count, new Date(), options);
  const current = { ...world, stores: { ...world.stores, syncRuns: changed(world.stores.syncRuns) } };
  const clock = { ...systemClock, leadMs: 0, monotonicMs: () => performance.now() + clock.leadMs };
  const shown = { stores: current.stores };
  const places = {
    mirrorPath: sparseFile('mirror.duckdb', 2_140_000_000),
    checkpointPath: sparseFile('checkpoint.sqlite', 9_400_000),
    dataDirectory: '/var/lib',
    diskReserveBytes: 1_000_000_000,
  };
  const served = await serve({ pageStores: () => shown.stores, places, clock });
  served.observed.current = current.state;
  const page = await browser.newPage({ viewport: DESK, reducedMotion: 'reduce', ...window });
  onTestFinished(() => page.close());
  const errors: string[] = [];
  page.on('pageerror', (error) => void errors.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error' || line.type() === 'warning') errors.push(line.text());
  });
  const show = async (): Promise<void> => {
    await page.goto(served.url);
    await page.locator('#rows tr').first().waitFor();
  };
  return {
    page,
    errors,
    show,
    ...served,
    /** The server has something else to report from now on. */
    becomes({ state, stores }: ReturnType<typeof pageWorld>) {
      served.observed.current = state;
      shown.stores = stores;
      clock.leadMs += 60_000;
    },
  };
}

/** A file of that size that takes no room. */
function sparseFile(name: string, bytes: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, name), '');
  truncateSync(join(folder, name), bytes);
  return join(folder, name);
}

/** Answers of the server that are newer than a second are shared; the page asks at once when it becomes visible. */
async function askAgain(page: Page): Promise<void> {
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
}

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(
    `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })`,
  );
}

describe.skipIf(!hasChromium)('the status page', () => {
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterAll(() => browser.close());

  it.each<[ShownCase, number, string, string]>([
    ['all well', 20, 'good', 'All 20 datasets are up to date'],
    ['one suspended', 20, 'warn', 'One thing waits for you'],
    ['first load', 3_000, 'work', '1,230 of 3,000 datasets are up to date'],
    ['outage', 20, 'bad', 'The service cannot be reached'],
  ])('the status page shows its state in one line: %s', async (shownCase, count, level, headline) => {
    const { page, errors, show } = await opened(shownCase, { count });
    await show();
    expect(await page.locator('h1').textContent()).toBe(headline);
    expect(await page.locator('main').getAttribute('class')).toBe(level);
    expect(errors).toEqual([]);
    if (renewScreenshots && shownCase !== 'first load') {
      await page.screenshot({ path: screenshotPath(shownCase) });
    }
  });

  it('the status page shows how fast a first load goes, and how long it takes', async () => {
    const { page, show, becomes } = await opened('first load', { count: 3_000 });
    await page.clock.install();
    await show();
    expect(await page.locator('#progress').textContent()).toContain('not known yet');
    for (const loadedShare of [0.42, 0.43]) {
      becomes(pageWorld('first load', 3_000, new Date(), { loadedShare }));
      const answered = page.waitForResponse((answer) => answer.url().endsWith('/page/overview'));
      await page.clock.fastForward(15_000);
      await answered;
      await page
        .getByText(`${(3_000 * loadedShare).toLocaleString('en-US')} of 3,000`, { exact: true })
        .waitFor();
    }
    expect(await page.locator('#progress').textContent()).toMatch(/MB\/s.*about 1\d min/);
    if (renewScreenshots) await page.screenshot({ path: screenshotPath('first load') });
  });

  it('the status page shows the command for what waits, to be copied', async () => {
    const { page, show } = await opened('one suspended');
    await show();
    expect(await page.locator('#actions code').textContent()).toMatch(/^feed-sync resume --dataset us-/);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: /Copy the command/ }).click();
    await page.getByText('Copied.', { exact: true }).waitFor({ state: 'attached' });
    const copied = await page.evaluate('navigator.clipboard.readText()');
    expect(copied).toBe(await page.locator('#actions code').textContent());
  });

  it('the status page finds one of 12,000 datasets by the keyboard alone, and shows a hundred at once', async () => {
    const { page, show } = await opened('all well', { count: 12_000 });
    await show();
    expect(await page.locator('#rows tr').count()).toBe(100);
    await page.keyboard.press('/');
    await page.keyboard.type('brazos-bend-0777');
    await page.getByText('1 of 12,000').waitFor();
    expect(await page.locator('#rows th').allTextContents()).toEqual(['us-tx-brazos-bend-0777-permits']);
  });

  it('the status page shows whatever a service says as text, and runs nothing of it', async () => {
    const message = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';
    const { page, show } = await opened('one suspended', { message });
    await show();
    expect(await page.locator('#actions p').first().textContent()).toBe(message);
    expect(await page.locator('img, #page script').count()).toBe(0);
    expect(await page.title()).not.toBe('owned');
  });

  it('the status page names the unions, with what is left out of each and why', async () => {
    const { page, errors, show } = await opened('all well', { unions: UNIONS });
    await show();
    expect(await page.locator('#unions > div').allTextContents()).toEqual([
      'parcels12 tablesLeft out, because they differ: "height": integer in 11 (us-az-cedarville-0000-parcels), string in 1 (us-tx-<b>-parcels).',
      'permits1 tableLeft out, because altered outside feed-sync: us-a-permits; us-b-permits.',
      'zoningno tables yet',
    ]);
    expect(errors).toEqual([]);
  });

  it('the status page hides unions where there are none', async () => {
    const { page, show } = await opened('all well');
    await show();
    expect(await page.locator('#unions-part').isHidden()).toBe(true);
  });

  it('the status page polls with the tag of the last answer, and stops while it is hidden', async () => {
    const { page, show } = await opened('all well');
    await show();
    const statuses: number[] = [];
    page.on('response', (answer) => void statuses.push(answer.status()));
    await askAgain(page);
    await expect.poll(() => statuses.length).toBeGreaterThanOrEqual(2);
    expect(new Set(statuses)).toEqual(new Set([304]));
    await setHidden(page, true);
    await askAgain(page);
    const before = statuses.length;
    await setHidden(page, false);
    await askAgain(page);
    await expect.poll(() => statuses.length).toBe(before + 2);
  });

  it('the status page says that nobody answers, and keeps what it showed', async () => {
    const { page, server, show } = await opened('all well');
    await show();
    await server.close();
    await askAgain(page);
    await page.getByText('feed-sync does not answer').waitFor();
    expect(await page.locator('#rows tr').count()).toBe(20);
  });

  it.each(['light', 'dark'] as const)('the status page fits a phone, in %s', async (colorScheme) => {
    const { page, show } = await opened('one suspended', { window: { viewport: PHONE, colorScheme } });
    await show();
    const isWider = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
    expect(isWider).toBe(false);
    // Numbers stand in line with the times below them.
    const aligned = await page.evaluate(
      "getComputedStyle(document.querySelector('#rows td[data-label=service]')).textAlign",
    );
    expect(aligned).toBe('left');
    if (renewScreenshots) await page.screenshot({ path: screenshotPath(`phone, ${colorScheme}`) });
  });

  it('the status page breaks long words of a commit on a phone, and cuts nothing off', async () => {
    const table = 'archived.us_az_cedarville_parcels__12_20261128t114506z';
    const { page, show } = await opened('all well', {
      window: { viewport: PHONE },
      changed: (runs) => runs.map((run) => ({ ...run, detail: `its rows are in ${table}` })),
    });
    await show();
    await page.getByText(table).first().waitFor();
    const isCut =
      "[...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)";
    expect(await page.evaluate(isCut)).toBe(false);
  });
});

it('the status page runs its own script and style alone, and may not be framed', async () => {
  const { url } = await serve();
  const { status, headers, text } = await ask(`${url}/`);
  expect(status).toBe(200);
  const policy = String(headers['content-security-policy']);
  expect(policy).toMatch(
    /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; connect-src 'self';/,
  );
  expect(policy).toContain("frame-ancestors 'none'");
  expect(text).not.toMatch(/\son\w+=|\sstyle=|https?:|innerHTML/);
});

it('the overview of the status page lists a part of what a union leaves out, and how much there is', async () => {
  const many = Array.from({ length: 9 }, (_, index) => `us-${index}-parcels`);
  const { stores, state } = pageWorld('all well', 1, new Date(), {
    unions: [{ ...UNION, name: 'parcels', members: 3, unusable: many }],
  });
  const served = await serve({ pageStores: () => stores });
  served.observed.current = state;
  const { unions } = JSON.parse((await ask(`${served.url}/page/overview`)).text);
  expect(unions).toEqual([
    {
      name: 'parcels',
      tables: 3,
      leftOutColumns: { shown: [], count: 0 },
      leftOutDatasets: { shown: many.slice(0, 5), count: 9 },
    },
  ]);
});

it('the status page answers only hosts of this machine on a loopback address', async () => {
  const { url } = await serve();
  for (const path of ['/', '/page/overview', '/page/datasets']) {
    expect((await ask(`${url}${path}`, { headers: { Host: 'evil.example' } })).status).toBe(421);
  }
});
