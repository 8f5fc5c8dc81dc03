/** The log as programs and people read it. */

import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { logFor } from '../../src/cli/render/screen.ts';
import { createLog, type LogFormat, type LogLevel, silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { loadLocal } from '../support/configuration.ts';

function logged(format: LogFormat, level: LogLevel = 'info') {
  const stream = new PassThrough({ encoding: 'utf8' });
  const log = createLog({ level, format, stream, color: false });
  return { log, text: (): string => stream.read() ?? '' };
}

describe('the log', () => {
  it('writes one JSON object to a line: level by name, time by the calendar, the fields, the message', () => {
    const { log, text } = logged('json');
    log.warn({ dataset: 'parcels', rows: 7 }, 'It "says"\nso.');
    const [line = '', rest] = text().split('\n');
    expect(rest).toBe('');
    expect(JSON.parse(line)).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      dataset: 'parcels',
      rows: 7,
      msg: 'It "says"\nso.',
    });
  });

  it('omits lines below its level', () => {
    const { log, text } = logged('json', 'warn');
    log.trace({}, 'no');
    log.debug({}, 'no');
    log.info({}, 'no');
    log.error({}, 'yes');
    expect(JSON.parse(text())).toMatchObject({ level: 'error', msg: 'yes' });
    const silent = logged('json', 'silent');
    silent.log.error({}, 'no');
    expect(silent.text()).toBe('');
  });

  it.each(['json', 'text'] as const)(
    'leaves no listener on its stream, however many logs there are: %s',
    (format) => {
      const stream = new PassThrough({ encoding: 'utf8' });
      const listeners = () => stream.eventNames().map((name) => [name, stream.listenerCount(name)]);
      const before = listeners();
      const messages = Array.from({ length: 12 }, (_, index) => `Message ${index}.`);
      for (const message of messages)
        createLog({ level: 'info', format, stream, color: false }).info({}, message);
      expect(listeners()).toEqual(before);
      expect(String(stream.read()).match(/Message \d+\./g)).toEqual(messages);
    },
  );

  it('writes a line for people on a terminal: numbers with their units after the message', () => {
    const { log, text } = logged('text');
    const commit = {
      dataset: 'parcels',
      fromVersion: null,
      rows: 20_000,
      bytes: 2_035_464,
      durationMs: 3_565,
    };
    log.info(commit, 'Loaded a snapshot.');
    const line = text();
    expect(line).toMatch(/^\[\d\d:\d\d:\d\d\] INFO: /);
    expect(line).toContain('Loaded a snapshot. dataset parcels, rows 20,000, bytes 2.0 MB, duration 3.6 s\n');
    expect(line).not.toContain('\u001b');
  });

  it('writes the id of a process for people without separators, as other commands take it', () => {
    const { log, text } = logged('text');
    log.warn({ remainingMs: 2_700, holderProcess: 11_947 }, 'Waiting.');
    expect(text()).toContain('Waiting. remaining 2.7 s, holder process 11947\n');
  });

  it('writes reason, hint and links for people on lines of their own', () => {
    const { log, text } = logged('text');
    const links = { help: 'https://feed.example/help' };
    log.warn(
      { of: 'service', error: 'mirror_busy', why: 'It is locked.\u001b[2J', hint: 'Wait.', links },
      'An incident.',
    );
    expect(text().split('\n').slice(1)).toEqual([
      '    It is locked.\\u001b[2J',
      '    → Wait.',
      '    help: https://feed.example/help',
      '',
    ]);
  });

  it.each([true, false])('has colours on a terminal that shows them: %s', (hasColor) => {
    const stderr = new PassThrough({ encoding: 'utf8' });
    const terminal = {
      stdout: new PassThrough(),
      stderr,
      isWatched: true,
      hasColor,
      width: 80,
      height: 24,
      resultWidth: null,
    };
    logFor(loadLocal({ stderrIsTerminal: true }).configuration, terminal).info({}, 'Here.');
    expect(stderr.read().includes('\u001b')).toBe(hasColor);
  });

  it.each(['json', 'text'] as const)('hides a secret in the format %s', (format) => {
    const { log, text } = logged(format);
    log.error({ key: new Secret('canary-key'), deep: { key: new Secret('canary-key') } }, 'Here.');
    expect(text()).toContain('[secret]');
    expect(text()).not.toContain('canary');
  });

  it('writes nothing to the silent log', () => {
    for (const write of Object.values(silentLog)) expect(write({}, 'nothing')).toBeUndefined();
  });
});
