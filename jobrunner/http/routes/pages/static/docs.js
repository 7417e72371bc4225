"use strict";
// Nothing is asked of anybody but this service: no validator, no fonts. A token that was typed in
// stays in this page and goes with it.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  defaultModelsExpandDepth: -1,
  docExpansion: "list",
  displayRequestDuration: true,
  presets: [SwaggerUIBundle.presets.apis],
});
