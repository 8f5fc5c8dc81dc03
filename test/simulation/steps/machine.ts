/** Incidents of the machine: a reader that has the mirror open, and full disks. Only on the model stage. */

import { catchUp } from '../catch-up.ts';
import { hasMembers } from '../feed-changes.ts';
import { approveAll } from '../operator.ts';
import { DISK_USES, type Machine } from '../stage.ts';
import type { Step } from '../step.ts';

const MOST_TIMES = 3;

export const machineSteps: readonly Step[] = [
  {
    name: 'operator: approves what waits by now',
    weight: 3,
    applies: ({ settings }) => settings.isGated,
    act: async (world) => `${await approveAll(world)} approved`,
  },
  incident('machine: a reader has the mirror open', (machine, times) => machine.occupyMirror(times)),
  ...DISK_USES.map((use) =>
    incident(`machine: the disk is full, ${use}`, (machine, times) => machine.fillDisk(use, times)),
  ),
];

/** There is something to do, and one catch-up meets the incident. */
function incident(name: string, begin: (machine: Machine, times: number) => void): Step {
  return {
    name,
    isFault: true,
    onlyOn: 'model',
    weight: 1.5,
    applies: hasMembers,
    act: async (world) => {
      const published = world.publish(world.anyMember());
      // The incident comes during work, not while the stores are opened.
      await world.installation.parts();
      const times = world.random.integer(1, MOST_TIMES);
      if (world.stage.machine !== null) begin(world.stage.machine, times);
      await catchUp(world);
      world.stage.machine?.recover();
      return `${times} times; ${published}`;
    },
  };
}
