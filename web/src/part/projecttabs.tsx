import { go, setParams } from "../state/route.ts";
import { type Place, pathTo } from "../state/saved.ts";
import { ViewMenu } from "./viewmenu.tsx";

const tabs: [string, string][] = [
  ["runs", "Runs"],
  ["charts", "Charts"],
  ["", "Compare"],
  ["attributes", "Differences"],
];

/** ProjectTabs are the ways to look at a project's runs: all of them have the same filter, selection and saved views. */
export function ProjectTabs({ tab, ...at }: Place & { tab: string }) {
  const open = (name: string) => {
    if (tab !== "runs" && name !== "runs") setParams({ tab: name });
    else if (name !== tab) go(...pathTo(at, name));
  };
  return (
    <>
      <div class="tabs project-tabs" role="tablist">
        {tabs.map(([name, title]) => (
          <button type="button" role="tab" key={name} aria-selected={tab === name} onClick={() => open(name)}>
            {title}
          </button>
        ))}
      </div>
      <ViewMenu {...at} />
    </>
  );
}
