/** How a daemon answers probes among clients that mean no good, and what memory these cost it (F60). */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BenchCase, Contest, Sample, Size } from './case.ts';
import { THREE_THOUSAND_DATASETS } from './many-datasets.ts';
import { mirrored } from './mirrored.ts';
import { inFolder } from './program-run.ts';
import { type RunningProgram, startProgram } from './running-program.ts';
import { median } from './statistics.ts';
import { ATTACKS, type Attack } from './status-attacks.ts';

const RUNS = 3;
/** Of each attack. */
const PROBES: Readonly<Record<Size, number>> = { full: 60, quick: 5 };
const PROBE_EVERY_MS = 100;
/** Before the attacks one client asks for so many reports, so far apart that each is made anew. */
const REPORTS: Readonly<Record<Size, number>> = { full: 20, quick: 2 };
const REPORT_EVERY_MS = 1_000;
/** As long as the kubelet waits. */
const PROBE_TIMEOUT_MS = 1_000;
/** What the start leaves to be done is done. */
const SETTLED_AFTER_MS = 3_000;
const KILOBYTES_PER_MEGABYTE = 1_024;

export const statusLoad: BenchCase = {
  name: 'status-load',
  what: 'probes of a daemon with 3,000 datasets, among clients that mean no good',
  reach: [
    { measure: 'livezMs', atMost: 100 },
    { measure: 'failedProbes', atMost: 0 },
    { measure: 'grownMegabytes', atMost: 50 },
  ],
  fewRuns: RUNS,
  whyNot: () =>
    existsSync('/proc/self/clear_refs') ? null : 'the memory of a process is read as Linux tells it',
  validate: (size, workspace) => probeContest(size, workspace),
};

async function probeContest(size: Size, workspace: string): Promise<Contest> {
  const { feed, data } = await mirrored(THREE_THOUSAND_DATASETS[size], workspace);
  return {
    async subject() {
      return await inFolder(workspace, async (folder) => {
        await using program = await startProgram(feed, data, folder);
        await sleep(SETTLED_AFTER_MS);
        return await probed(program, size);
      });
    },
    reference: null,
    [Symbol.asyncDispose]: () => feed[Symbol.asyncDispose](),
  };
}

/** The counts are of the worst attack; those of each have its name. */
async function probed(program: RunningProgram, size: Size): Promise<Sample> {
  const idle = residentMegabytes(program.pid, 'VmRSS');
  for (let number = 0; number < REPORTS[size]; number += 1) {
    await (await fetch(`${program.url}/status`)).arrayBuffer();
    await sleep(REPORT_EVERY_MS);
  }
  const before = residentMegabytes(program.pid, 'VmRSS');
  const cpuBefore = program.cpuSeconds();
  const counts: Record<string, number> = {
    livezMs: 0,
    failedProbes: 0,
    grownMegabytes: 0,
    askedMegabytes: before - idle,
  };
  const all: number[] = [];
  for (const kind of ATTACKS) {
    beginAnewWithPeak(program.pid);
    const took = await under(kind, program.url, () => probesOf(program.url, PROBES[size]));
    const answered = took.filter((ms) => ms !== null);
    all.push(...answered);
    const ofKind = {
      livezMs: Math.max(0, ...answered),
      failedProbes: took.length - answered.length,
      grownMegabytes: residentMegabytes(program.pid, 'VmHWM') - before,
    };
    for (const [name, value] of Object.entries(ofKind)) {
      counts[`${name}, ${kind}`] = value;
      counts[name] = Math.max(counts[name] ?? 0, value);
    }
  }
  const cpuSeconds = program.cpuSeconds() - cpuBefore;
  const { peakMegabytes } = await program.stop();
  return { seconds: median(all) / 1_000, cpuSeconds, peakMegabytes, counts, repetitions: { livezMs: all } };
}

async function under<T>(kind: Attack, url: string, work: () => Promise<T>): Promise<T> {
  const child = fork(fileURLToPath(new URL('status-attack-child.ts', import.meta.url)), [kind, url]);
  const exited = once(child, 'exit');
  try {
    await sleep(SETTLED_AFTER_MS);
    return await work();
  } finally {
    child.disconnect();
    await exited;
  }
}

/** Milliseconds of each probe; null where it failed. */
async function probesOf(url: string, probes: number): Promise<readonly (number | null)[]> {
  const took: (number | null)[] = [];
  for (let number = 0; number < probes; number += 1) {
    const startedMs = performance.now();
    const isAlive = await probe(`${url}/livez`);
    const ms = performance.now() - startedMs;
    took.push(isAlive ? ms : null);
    await sleep(Math.max(0, PROBE_EVERY_MS - ms));
  }
  return took;
}

/** On a connection of its own, as probes come. */
function probe(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(
      url,
      { agent: false, signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) },
      (response) => {
        response.resume().once('end', () => resolve(response.statusCode === 200));
        response.once('error', () => resolve(false));
      },
    );
    asked.once('error', () => resolve(false)).end();
  });
}

/** From now on `VmHWM` is the most since now. */
function beginAnewWithPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** `VmRSS`: now; `VmHWM`: the most so far. */
function residentMegabytes(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kilobytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
  return Number(kilobytes) / KILOBYTES_PER_MEGABYTE;
}
