/** The units: what systemd itself says of them, where its program `systemd-analyze` is. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { projectText, unitLines } from '../support/deployment-files.ts';
import { projectRoot } from '../support/source-tree.ts';

const SERVICES = ['feed-sync.service', 'feed-sync-once.service'];
const UNITS = [...SERVICES, 'feed-sync-once.timer'];
/** Of ten, as `systemd-analyze security` counts; it calls a service that does nothing about it 9.6. */
const MOST_EXPOSED = 1.5;
const INSTALLED_NODE = '/opt/feed-sync/node ';

const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;
if (!hasAnalyze) {
  process.stderr.write(
    'The systemd units are not judged: there is no systemd-analyze. On Debian: apt-get install systemd\n',
  );
}

interface Analysis {
  readonly status: number | null;
  readonly said: string;
}

/** Judges the units in a folder, where the program need not be installed. */
function analyze(words: readonly string[], change: (text: string) => string = (text) => text): Analysis {
  const folder = mkdtempSync(join(tmpdir(), 'feed-sync-units-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of UNITS) {
    const text = projectText(`config/systemd/${name}`).replace(INSTALLED_NODE, `${process.execPath} `);
    writeFileSync(join(folder, name), change(text));
  }
  const { status, stdout, stderr } = spawnSync('systemd-analyze', words, { cwd: folder, encoding: 'utf8' });
  return { status, said: `${stdout}${stderr}` };
}

describe.skipIf(!hasAnalyze)('the judgement of systemd-analyze', () => {
  const verify = ['verify', '--man=no', ...UNITS.map((name) => `./${name}`)];

  it('systemd-analyze finds no fault in the units', () => {
    const { status, said } = analyze(verify);
    // It also judges the units of the machine that ours name.
    expect(said.split('\n').filter((line) => line.includes('feed-sync'))).toEqual([]);
    expect(status, said).toBe(0);
  });

  it('systemd-analyze would name a wrong setting of a unit', () => {
    const { said } = analyze(verify, (text) => text.replace('WatchdogSec', 'WatchdogSeconds'));
    expect(said).toContain('WatchdogSeconds');
  });

  it.each(SERVICES)(`systemd-analyze finds %s exposed by ${MOST_EXPOSED} of ten at most`, (name) => {
    const { status, said } = analyze(['security', '--offline=true', '--no-pager', `./${name}`]);
    const [, exposed] = /Overall exposure level for \S+: (\d+\.\d)/.exec(said) ?? [];
    expect(status, said).toBe(0);
    expect(Number(exposed), said).toBeLessThanOrEqual(MOST_EXPOSED);
  });
});

describe('the command for root', () => {
  /** The words that systemd-run is given, where systemctl prints these lines. */
  function wordsOf(unit: string, words: readonly string[]) {
    const folder = mkdtempSync(join(tmpdir(), 'feed-sync-wrapper-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'unit'), unit);
    const programs = {
      systemctl: `cat ${join(folder, 'unit')}`,
      'systemd-run': 'for word; do printf "%s\\0" "$word"; done; exit 77',
    };
    for (const [name, script] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
    const script = join(projectRoot, 'config/systemd/feed-sync');
    const { status, stdout, stderr } = spawnSync('sh', [script, ...words], {
      encoding: 'utf8',
      env: { PATH: `${folder}:${process.env['PATH']}` },
    });
    return { status, words: stdout.split('\0').slice(0, -1), stderr };
  }

  it("the command for root runs as the service does, with sandbox and drop-ins, and ends with the command's exit code", () => {
    const unit = projectText('config/systemd/feed-sync-once.service');
    const dropIn = '# override.conf\n[Unit]\nAfter=x\n[Service]\nMemoryMax=8G\n';
    const { status, words } = wordsOf(unit + dropIn, ['query', 'SELECT * FROM "a b"']);
    expect(status).toBe(77);
    const properties = words.filter((word) => word.startsWith('--property=')).map((word) => word.slice(11));
    const expected = unitLines('feed-sync-once.service')
      .filter((line) => /^Service\.(?!Type|ExecStart|Timeout)/.test(line))
      .map((line) => line.replace('Service.', ''));
    expect(properties).toEqual([...expected, 'MemoryMax=8G']);
    expect(properties).toEqual(expect.arrayContaining(['User=feed-sync', 'StateDirectoryMode=0700']));
    expect(words.slice(-2)).toEqual(['query', 'SELECT * FROM "a b"']);
    expect(words).toContain('--disable-sigusr1');
  });

  it('the command for root starts nothing where the service is not installed', () => {
    const { status, words, stderr } = wordsOf('', ['status']);
    expect(status).toBe(78);
    expect(words).toEqual([]);
    expect(stderr).toContain('feed-sync-once.service is not installed');
  });
});

describe('restarts', () => {
  it('F64 systemd restarts the service at most twenty times an hour', () => {
    const lines = unitLines('feed-sync.service');
    expect(lines).toEqual(
      expect.arrayContaining(['Unit.StartLimitIntervalSec=1h', 'Unit.StartLimitBurst=20']),
    );
    expect(lines).toContain('Service.RestartSec=30s');
    expect(unitLines('feed-sync-once.service')).toContain('Service.TimeoutStartSec=24h');
  });
});

describe('the two services', () => {
  const ofSandbox = (line: string): boolean =>
    /^Service\.(?:Protect|Private|Restrict(?!Prevent)|Capability|Ambient|SystemCall|NoNew|Lock|Remove|Keyring|Device|UMask|LimitCORE)/.test(
      line,
    );

  it('the two services run in the same sandbox', () => {
    const [daemon = [], once = []] = SERVICES.map((name) => unitLines(name).filter(ofSandbox));
    expect(daemon.length).toBeGreaterThan(20);
    expect(once).toEqual(daemon);
  });

  it('the two services let Node compile what it runs', () => {
    expect(SERVICES.flatMap(unitLines).filter((line) => line.includes('MemoryDenyWriteExecute'))).toEqual([]);
  });

  it('the two services get the key as a credential, and keep everything in their state directory', () => {
    for (const name of SERVICES) {
      expect(unitLines(name)).toContain('Service.LoadCredential=api-key:/etc/feed-sync/api-key');
      expect(unitLines(name)).toContain('Service.StateDirectory=feed-sync');
    }
  });

  it('the daemon notifies systemd by a program of its own', () => {
    expect(unitLines('feed-sync.service')).toEqual(
      expect.arrayContaining(['Service.Type=notify', 'Service.NotifyAccess=all']),
    );
  });
});
