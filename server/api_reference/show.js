// Shows the server's OpenAPI description. validatorUrl is null: nothing is sent to another server.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#reference", deepLinking: true, validatorUrl: null });
