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
  // The built page is committed and compared; hashed names may be cached for ever.
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licenses.md" }, // for those who pass the binary on (tools/licenses)
    rollupOptions: {
      output: {
        entryFileNames: "assets/page-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: process.env.KYMOGRAM_SERVER ? { proxy: { "/api": process.env.KYMOGRAM_SERVER } } : {},
});
