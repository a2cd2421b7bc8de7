(ns magnetar.impl.node-options
  "What the options of a node of a cluster and of a node of Erlang have in common: a name, and a cookie that no other user may read."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (java.io IOException)
   (java.nio.file Files LinkOption NoSuchFileException Path)
   (java.nio.file.attribute PosixFilePermission PosixFilePermissions)))

(set! *warn-on-reflection* true)

;; ---- checks

(defn name?
  "Is it the name of a node?"
  [x]
  (and (string? x) (re-matches #"[^\s@\p{Cntrl}]{1,100}@[^\s@\p{Cntrl}]{1,150}" x)))

(defn bad
  "Throws that the option of the operation is not what is wanted."
  [operation option wanted x]
  (arguments/misuse :magnetar/bad-option
                    (str "`" operation "`: " option " is " wanted "; this is " (arguments/show x) ".")
                    {:path [option] :value x}))

(defn check
  "Throws unless there is a name, all options are known, and each one that is there meets its check, [option good? wanted]."
  [operation known checks options]
  (arguments/options operation known (if (map? options) (dissoc options :cookie) options)) ; no error shows the cookie
  (when-not (name? (:name options))
    (bad operation :name "a string name@host" (:name options)))
  (doseq [[option good? wanted] checks
          :let [x (options option)]]
    (when-not (or (nil? x) (good? x))
      (bad operation option wanted x))))

;; ---- the cookie

(def ^:private of-others (PosixFilePermissions/fromString "---rwxrwx"))

(defn- check-permissions [^Path file]
  (let [permissions (try
                      (Files/getPosixFilePermissions file (make-array LinkOption 0))
                      (catch UnsupportedOperationException _ #{}))] ; a file system without them
    (when (some (fn [^PosixFilePermission p] (contains? of-others p)) permissions)
      (throw (IOException. (str "The cookie file " file " is open to others than its owner ("
                                (PosixFilePermissions/toString permissions) "): run `chmod 600 " file "`."))))))

(defn- text-of [^Path file most how-to-make]
  (try
    (check-permissions file)
    (when (< (long most) (Files/size file))
      (throw (IOException. (str "The cookie file " file " has more than " most " bytes: is it the right file?"))))
    (Files/readString file)
    (catch NoSuchFileException e
      (throw (IOException. (str "There is no cookie file " file ": " (how-to-make file) ".") e)))))

(defn- of-file [path {:keys [of most how-to-make refusal]}]
  (let [file (Path/of path (make-array String 0))
        text (text-of file most how-to-make)]
    (try
      (of text)
      (catch IllegalArgumentException e
        (throw (IOException. (str "The cookie file " file " " (refusal file) ".") e))))))

(defn- bad-cookie
  "Throws that the cookie will not do, and does not show it."
  [operation why]
  (arguments/misuse :magnetar/bad-option (str "`" operation "` cannot use the :cookie: " why ".") {:path [:cookie]}))

(defn cookie
  "The cookie of the options, of text or of a file.

    :of           makes it of text, or throws an IllegalArgumentException
    :most         how many bytes a file has at most
    :how-to-make  (f file) says how such a file is made
    :refusal      (f file) says what is wrong with a file whose text :of refuses"
  [operation {:keys [cookie cookie-file]} {:keys [of] :as kind}]
  (cond
    (and cookie cookie-file) (bad-cookie operation "there is a :cookie-file too; give one of the two")
    (string? cookie) (of cookie)
    cookie (bad-cookie operation "it is not a string")
    (string? cookie-file) (of-file cookie-file kind)
    :else (bad operation :cookie-file "the path of a file with the cookie, unless there is a :cookie" cookie-file)))
