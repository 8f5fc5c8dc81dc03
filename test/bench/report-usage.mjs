/**
 * Loaded into every measured process before its own code (`--import`): writes what the process used into the file
 * named by BENCH_USAGE_FILE when it ends. JavaScript, because to strip types takes longer than to start Node.
 */

import { readFileSync, writeFileSync } from 'node:fs';

const { BENCH_USAGE_FILE: path = '' } = process.env;
/** The kernel's unit of processor time, whatever the machine: a hundredth of a second. */
const MICROSECONDS_PER_TICK = 10_000;

process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const cpuMicroseconds = userCPUTime + systemCPUTime + childrenMicroseconds();
  writeFileSync(path, JSON.stringify({ cpuMicroseconds, peakKilobytes: ownPeakKilobytes() ?? maxRSS }));
});

/** On Linux `maxRSS` starts at the peak of the process that started this one, `VmHWM` at nothing. */
function ownPeakKilobytes() {
  try {
    const [, peak] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    return peak === undefined ? null : Number(peak);
  } catch {
    return null;
  }
}

/** Of processes that this one started and that have ended, such as curl. Node does not report it. */
function childrenMicroseconds() {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // The text behind the name, which may contain anything, begins with the third field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) * MICROSECONDS_PER_TICK;
  } catch {
    return 0;
  }
}
