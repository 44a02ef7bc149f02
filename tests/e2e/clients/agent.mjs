// An agent on the AI SDK, as an application writes it: `node agent.mjs generate|stream default|nostore`.
// Prints one JSON object: how each turn travelled, what each step did, and the answer.
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

globalThis.AI_SDK_LOG_WARNINGS = false;
const [mode, store] = process.argv.slice(2);
const turns = [];

const openai = createOpenAI({
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
  fetch: async (url, init) => {
    const answer = await fetch(url, init);
    const sent = JSON.parse(init.body);
    turns.push({
      status: answer.status,
      transport: answer.headers.get('x-deltawire-transport'),
      reason: answer.headers.get('x-deltawire-reason'),
      store: sent.store ?? null,
      references: sent.input.filter((item) => item.type === 'item_reference').length,
    });
    return answer;
  },
});

const call = {
  model: openai.responses('gpt-5.2'),
  system: 'You are a helpful agent. Use the tools.',
  prompt: 'Say what is in notes.txt.',
  tools: {
    shell: tool({
      description: 'Run a shell command.',
      inputSchema: z.object({ command: z.string() }),
      execute: async ({ command }) => `ran: ${command}`,
    }),
  },
  stopWhen: stepCountIs(50),
  maxRetries: 0,
  providerOptions: {
    openai: store === 'nostore' ? { store: false, reasoningEffort: 'low', reasoningSummary: 'auto' } : {},
  },
};

let result;
if (mode === 'stream') {
  result = streamText({ ...call, onError: ({ error }) => { throw error; } });
  for await (const _ of result.fullStream);
} else {
  result = await generateText(call);
}
const steps = (await result.steps).map((step) => ({
  calls: step.toolCalls.map(({ toolName, input }) => ({ toolName, input })),
  results: step.toolResults.map(({ output }) => output),
  reasoning: step.reasoning.map(({ text }) => text),
  text: step.text,
  finish: step.finishReason,
}));
console.log(JSON.stringify({ turns, steps, text: await result.text }));
