/** After a failing run: the commands that repeat what failed. */

import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

export class RepeatReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const failed = modules.filter((module) => module.state() === 'failed');
    if (failed.length === 0) return;
    const commands = failed.map(
      ({ project, moduleId }) => `  npx vitest run --project ${project.name} ${relative('', moduleId)}`,
    );
    process.stderr.write(`\nTo repeat what failed:\n${commands.join('\n')}\n`);
  }
}
