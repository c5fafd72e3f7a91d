"""Keys of authentication, encryption and authorization."""

from __future__ import annotations

from kafkapy.config.definitions import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    ConfigKey,
)
from kafkapy.config.validators import ListOf, NonNull, OneOf, OneOfAnyCase, at_least, between

AUTHORIZATION_KEYS = (
    ConfigKey("authorizer.class.name", STRING, "", READ_ONLY, "The class that decides who may do what.", NonNull()),
    ConfigKey(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        PER_BROKER,
        "The class that names the user behind a connection.",
    ),
    ConfigKey("security.providers", STRING, None, READ_ONLY, "Classes that add cryptographic providers to the JVM."),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        READ_ONLY,
        "How long a connection stays open after a failed login, to slow down guessing.",
        at_least(0),
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        LONG,
        0,
        READ_ONLY,
        "After how long a client has to log in again; 0 is never.",
    ),
    ConfigKey("delegation.token.secret.key", PASSWORD, None, READ_ONLY, "The secret that signs delegation tokens."),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        READ_ONLY,
        "How often expired delegation tokens are looked for.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        LONG,
        86400000,
        READ_ONLY,
        "How long a delegation token is valid until it is renewed.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        LONG,
        604800000,
        READ_ONLY,
        "How long a delegation token can be renewed.",
        at_least(1),
    ),
)

SSL_KEYS = (
    ConfigKey(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        READ_ONLY,
        "Whether a new certificate may have another distinguished name than the old one.",
    ),
    ConfigKey(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        READ_ONLY,
        "Whether a new certificate may lack alternative names of the old one.",
    ),
    ConfigKey("ssl.cipher.suites", LIST, (), PER_BROKER, "The cipher suites to offer.", ListOf(empty=True)),
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        PER_BROKER,
        "Whether clients must show a certificate.",
        OneOf("required", "requested", "none"),
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        PER_BROKER,
        "The TLS versions to accept.",
        ListOf(empty=True),
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        PER_BROKER,
        "How a client checks the server's name; empty checks nothing.",
    ),
    ConfigKey("ssl.engine.factory.class", CLASS, None, PER_BROKER, "A plug-in that makes the JVM's TLS engines."),
    ConfigKey("ssl.key.password", PASSWORD, None, PER_BROKER, "The password of the private key."),
    ConfigKey("ssl.keymanager.algorithm", STRING, "SunX509", PER_BROKER, "The JVM's key manager."),
    ConfigKey("ssl.keystore.certificate.chain", PASSWORD, None, PER_BROKER, "The certificate chain as PEM text."),
    ConfigKey("ssl.keystore.key", PASSWORD, None, PER_BROKER, "The private key as PEM text."),
    ConfigKey("ssl.keystore.location", STRING, None, PER_BROKER, "The file with the private key and certificate."),
    ConfigKey("ssl.keystore.password", PASSWORD, None, PER_BROKER, "The password of the key store."),
    ConfigKey("ssl.keystore.type", STRING, "JKS", PER_BROKER, "The format of the key store."),
    ConfigKey(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        READ_ONLY,
        "Rules that turn a certificate's distinguished name into a user name.",
    ),
    ConfigKey("ssl.protocol", STRING, "TLSv1.3", PER_BROKER, "The TLS version of the JVM's context."),
    ConfigKey("ssl.provider", STRING, None, PER_BROKER, "The JVM's security provider for TLS."),
    ConfigKey("ssl.secure.random.implementation", STRING, None, PER_BROKER, "The JVM's random number generator."),
    ConfigKey("ssl.trustmanager.algorithm", STRING, "PKIX", PER_BROKER, "The JVM's trust manager."),
    ConfigKey("ssl.truststore.certificates", PASSWORD, None, PER_BROKER, "The trusted certificates as PEM text."),
    ConfigKey("ssl.truststore.location", STRING, None, PER_BROKER, "The file with the trusted certificates."),
    ConfigKey("ssl.truststore.password", PASSWORD, None, PER_BROKER, "The password of the trust store."),
    ConfigKey("ssl.truststore.type", STRING, "JKS", PER_BROKER, "The format of the trust store."),
)

SASL_KEYS = (
    ConfigKey(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        PER_BROKER,
        "The ways to log in that the broker accepts.",
        ListOf(empty=True),
    ),
    ConfigKey("sasl.jaas.config", PASSWORD, None, PER_BROKER, "The login module with its options and passwords."),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", PER_BROKER, "How brokers log in to each other."
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol", STRING, "GSSAPI", READ_ONLY, "How brokers log in to the controller."
    ),
    ConfigKey(
        "sasl.server.max.receive.size", INT, 524288, READ_ONLY, "The largest message before a client has logged in."
    ),
    ConfigKey("sasl.server.callback.handler.class", CLASS, None, READ_ONLY, "A plug-in that checks logins."),
    ConfigKey("sasl.client.callback.handler.class", CLASS, None, READ_ONLY, "A plug-in that answers login questions."),
    ConfigKey("sasl.login.callback.handler.class", CLASS, None, READ_ONLY, "A plug-in that supplies credentials."),
    ConfigKey("sasl.login.class", CLASS, None, READ_ONLY, "A plug-in that keeps credentials fresh."),
    ConfigKey("sasl.login.connect.timeout.ms", INT, None, READ_ONLY, "How long connecting to a token server may take."),
    ConfigKey("sasl.login.read.timeout.ms", INT, None, READ_ONLY, "How long a token server may take to answer."),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        PER_BROKER,
        "How long before its expiry a token is renewed at the latest.",
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds", SHORT, 60, PER_BROKER, "The shortest time between two renewals."
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        PER_BROKER,
        "The share of a token's lifetime after which it is renewed.",
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter", DOUBLE, 0.05, PER_BROKER, "The random share added to the time of renewal."
    ),
    ConfigKey("sasl.login.retry.backoff.ms", LONG, 100, READ_ONLY, "The first pause after a token server failed."),
    ConfigKey(
        "sasl.login.retry.backoff.max.ms", LONG, 10000, READ_ONLY, "The longest pause after a token server failed."
    ),
)

KERBEROS_KEYS = (
    ConfigKey("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", PER_BROKER, "The program that gets a ticket."),
    ConfigKey(
        "sasl.kerberos.min.time.before.relogin", LONG, 60000, PER_BROKER, "The shortest time between two logins."
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ("DEFAULT",),
        PER_BROKER,
        "Rules that turn a Kerberos principal into a user name.",
        ListOf(empty=True),
    ),
    ConfigKey("sasl.kerberos.service.name", STRING, None, PER_BROKER, "The Kerberos name of the broker's service."),
    ConfigKey(
        "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, PER_BROKER, "The random share added to a ticket's renewal."
    ),
    ConfigKey(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        PER_BROKER,
        "The share of a ticket's lifetime after which it is renewed.",
    ),
)

OAUTH_KEYS = (
    ConfigKey(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        READ_ONLY,
        "The signature of an assertion.",
        OneOfAnyCase("ES256", "RS256"),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.aud", STRING, None, READ_ONLY, "The audience of an assertion."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        READ_ONLY,
        "How long an assertion is valid.",
        between(0, 86400),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.iss", STRING, None, READ_ONLY, "The issuer of an assertion."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, READ_ONLY, "Whether an assertion has an id."
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        READ_ONLY,
        "How far back in time an assertion is already valid.",
        between(0, 3600),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.sub", STRING, None, READ_ONLY, "The subject of an assertion."),
    ConfigKey("sasl.oauthbearer.assertion.file", STRING, None, READ_ONLY, "A file that holds a ready assertion."),
    ConfigKey("sasl.oauthbearer.assertion.private.key.file", STRING, None, READ_ONLY, "The key that signs assertions."),
    ConfigKey(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        PASSWORD,
        None,
        READ_ONLY,
        "The passphrase of the key that signs assertions.",
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.template.file",
        STRING,
        None,
        READ_ONLY,
        "A file with the fixed part of an assertion.",
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.id", STRING, None, READ_ONLY, "The client id for a token server."
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        READ_ONLY,
        "The client secret for a token server.",
    ),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds", INT, 30, READ_ONLY, "How far the clocks of issuer and broker may differ."
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        READ_ONLY,
        "Audiences for which a token may be meant.",
        ListOf(empty=True),
    ),
    ConfigKey("sasl.oauthbearer.expected.issuer", STRING, None, READ_ONLY, "Who must have issued a token."),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        READ_ONLY,
        "How often the issuer's public keys are fetched.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        READ_ONLY,
        "The first pause after fetching the public keys failed.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        READ_ONLY,
        "The longest pause after fetching the public keys failed.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url", STRING, None, READ_ONLY, "Where the issuer's public keys are found."
    ),
    ConfigKey(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        READ_ONLY,
        "The class that gets tokens.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        READ_ONLY,
        "The class that checks tokens.",
    ),
    ConfigKey("sasl.oauthbearer.scope", STRING, None, READ_ONLY, "The scope to ask a token server for."),
    ConfigKey(
        "sasl.oauthbearer.scope.claim.name", STRING, "scope", READ_ONLY, "The claim of a token that holds its scope."
    ),
    ConfigKey(
        "sasl.oauthbearer.sub.claim.name", STRING, "sub", READ_ONLY, "The claim of a token that holds its subject."
    ),
    ConfigKey("sasl.oauthbearer.token.endpoint.url", STRING, None, READ_ONLY, "Where tokens are issued."),
)

KEYS = AUTHORIZATION_KEYS + SSL_KEYS + SASL_KEYS + KERBEROS_KEYS + OAUTH_KEYS
