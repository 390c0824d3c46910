import { defineConfig, type Plugin } from "vite";
import { standin } from "./test/standin/server.ts";

/** Without KYMOGRAM_SERVER the dev server answers from generated data. */
function standinPlugin(): Plugin {
  return {
    name: "kymogram-standin",
    configureServer(server) {
      if (process.env.KYMOGRAM_SERVER) return;
      const handle = standin();
      server.middlewares.use((req, res, next) => {
        if (!handle(req, res)) next();
      });
    },
  };
}

export default defineConfig({
  plugins: [standinPlugin()],
  // One chunk and fixed names: the built page is committed and compared.
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/page.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: process.env.KYMOGRAM_SERVER ? { proxy: { "/api": process.env.KYMOGRAM_SERVER } } : {},
});
