/** The notifications of systemd by `feed-sync run` as a process. */

import { expect, it } from 'vitest';
import { countyFeed } from '../support/county-feed.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { recordingSystemdNotify } from '../support/recording-systemd-notify.ts';

it('run notifies systemd that it is ready, of its status and progress, and that it stops; without the environment', async () => {
  const { feed } = await countyFeed();
  const { path, reported } = recordingSystemdNotify();
  const installed = await program({
    feed,
    environment: {
      PATH: path,
      NOTIFY_SOCKET: '/run/systemd/notify',
      // The watchdog is fed every second.
      WATCHDOG_USEC: '4000000',
      FEED_SYNC_DISK_RESERVE: '0MB',
    },
  });
  const run = installed.start('run');
  const says = (words: string) =>
    eventually(() => expect(reported().join('\n'), run.stderr()).toContain(words));
  await says('READY=1|');
  await says('WATCHDOG=1|');
  await says('STATUS=Idle');
  run.kill('SIGTERM');
  expect(await run.ended).toMatchObject({ exitCode: 0 });
  expect(reported()[0]).toContain('READY=1|');
  expect(reported().at(-1)).toContain('STOPPING=1|');
  expect(reported().filter((line) => !line.endsWith('|0'))).toEqual([]);
});
